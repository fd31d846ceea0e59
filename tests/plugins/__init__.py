"""The plug-ins: contracts without the engines, and each with the real engine if that can be installed."""
