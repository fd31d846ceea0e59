// AG-UI's own client in a page: `begin` runs the agent, `told` is what the client told so far.
import { HttpAgent } from "@ag-ui/client";

let agent;

window.open = ({ url, threadId, messages }) => {
  agent = new HttpAgent({ url, threadId, initialMessages: messages });
  window.told = { events: [], failed: null, newMessages: null };
};

window.begin = ({ append, ...run }) => {
  for (const message of append ?? []) agent.addMessage(message);
  const told = (window.told = { events: [], failed: null, newMessages: null });
  const watch = { onEvent: ({ event }) => void told.events.push(event) };
  agent.runAgent(run, watch).then(
    ({ newMessages }) => (told.newMessages = newMessages),
    (error) => (told.failed = String(error.message)),
  );
};

window.abort = () => agent.abortRun();
window.messages = () => agent.messages;
