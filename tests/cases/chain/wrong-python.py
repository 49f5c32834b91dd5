# What is not a literal is refused where it stands.
executors = [
    {
        "executor_id": "a",
        "system_prompt": f"Today is {today}",
    },
]
