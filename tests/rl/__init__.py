"""Rollouts: conversations by token, rewards, batches."""
