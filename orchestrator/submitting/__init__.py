"""From a sweep's file to wishes in a store or at a service, and what changes them afterwards."""
