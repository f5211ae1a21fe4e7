READS = ("routing_heads", "query_init")
