"""Which notifications are due to which receivers, with Alertmanager's timing. Pure."""
