"""What runs inside Airflow; nothing yet: the Airflow scheduler comes with its own release."""
