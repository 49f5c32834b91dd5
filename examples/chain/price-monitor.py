        executors = [
            {
                "executor_id": "fetch",
                "name": "Fetcher",
                "model": "gpt-4o-mini",
                "tools": ["search_web"],
                "system_prompt": "Search for prices...",
                "output_schema": {"prices": [{"product": "str", "price": "float"}]},
                "iteration_hint": "Search all 5 products"
            },
            {
                "executor_id": "summarize",
                "name": "Summarizer",
                "model": "gpt-4o",
                "tools": ["execute_python"],
                "system_prompt": "Previous output: {previous_output}. Summarize...",
                "output_schema": {"summary": "str", "avg_price": "float"}
            }
        ]
        create_workflow("Price Monitor", "Check prices", executors)
