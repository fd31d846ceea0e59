"""The plug-ins: contracts without the engines, and each before the real one where that can be installed."""
