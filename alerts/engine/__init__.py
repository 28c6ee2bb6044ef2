"""What is due to whom, with Alertmanager's timing: pure."""
