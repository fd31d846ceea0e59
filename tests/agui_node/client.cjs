// Runs AG-UI's own client: node client.cjs FOLDER, where FOLDER/node_modules holds it.
// Standard input is one conversation: {url, threadId, messages, runs}. Each run is what runAgent takes, and may have
// "abortAt", the type of the event at which the run is aborted, and "append", messages put behind the others before it.
// Standard output is JSON lines: {event} for each event, {failed} where the client gives a run up, {ended} with the
// run's result and the conversation as the client has it then.
const { createRequire } = require("node:module");
const { HttpAgent } = createRequire(`${process.argv[2]}/`)("@ag-ui/client");

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function converse({ url, threadId, messages, runs }) {
  const agent = new HttpAgent({ url, threadId, initialMessages: messages });
  for (const { abortAt, append, ...run } of runs) {
    for (const message of append ?? []) agent.addMessage(message);
    const before = agent.messages.length;
    const watch = {
      onEvent({ event }) {
        tell({ event });
        if (event.type === abortAt) agent.abortRun();
      },
    };
    try {
      const { result, newMessages } = await agent.runAgent(run, watch);
      tell({ ended: { result, newMessages, messages: agent.messages } });
    } catch (error) {
      tell({ failed: { message: String(error.message), status: error.status, payload: error.payload } });
      tell({ ended: { newMessages: agent.messages.slice(before), messages: agent.messages } });
    }
  }
}

let input = "";
process.stdin.on("data", (data) => (input += data));
process.stdin.on("end", () => converse(JSON.parse(input)).then(() => process.exit(0)));
