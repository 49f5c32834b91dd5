create_workflow(
    "Prices", "Check prices", executors=[
        {
            "executor_id": "fetch", "name": "Fetcher", "model": "gpt-4o-mini", "tools": ["search_web"],
            "system_prompt": "Search for " 'prices.', "output_schema": {"prices": [{"product": "str", "price": "float"}]},
        },
        {
            "executor_id": "sum_up", "name": "Writer", "model": "gpt-4o", "tools": [],
            "system_prompt": """Prices: $previous_output.prices
{previous_output}""", "output_schema": {"summary": "str"}, "iteration_hint": None,
        },
    ],
)
