"""The parts of messages besides text: reads them in every protocol (`reading`), recognizes and bounds their bytes
(`formats`), fetches them (`fetching`), and finds their places in prompts (`places`).
"""
