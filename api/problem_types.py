"""What each kind of error means and what to do about it: where the `type` of a problem leads."""

TYPES = {
    "bad_cursor": "The cursor was not made for this list and these filters. Start again without one.",
    "changed_meanwhile": "The sweep is not as you saw it any more. Read it again, and send its new ETag.",
    "content_too_large": "The body is larger than the service takes.",
    "host_not_allowed": "The Host header names a machine that the service does not answer for. Who runs it "
    "can allow more names with `headcount serve --allow-host`.",
    "if_match_needed": "A change says which state it changes: send the sweep's ETag in If-Match, or `*`.",
    "internal": "A fault of the service. Its log has the cause under the request_id.",
    "invalid_body": "The body is not what its Content-Type says.",
    "invalid_request": "Parameters, headers or body are not as openapi.json describes; `errors` lists each.",
    "key_in_use": "The first request with this Idempotency-Key is still in work. Send it again in a moment.",
    "key_reused": "This Idempotency-Key was sent with another request. Take a new key.",
    "method_not_allowed": "The path exists, but not with this method; the header Allow lists those it has.",
    "not_acceptable": "The answer is not to be had in the form that the suffix or Accept asks for.",
    "not_found": "There is nothing at this path, or no sweep, cell or job of this name.",
    "not_possible": "The request is well formed, but cannot be done; `detail` says why.",
    "not_the_owner": "The sweep is another's. Changing it needs a token with the scope admin.",
    "origin_missing": "A change with a login's cookie must come from the service's own pages.",
    "origin_not_allowed": "Pages of other sites may not use the service.",
    "scope_insufficient": "The token does not have the scope that this path needs.",
    "scope_missing": "Nobody may use this path.",
    "stopping": "This process of the service is about to stop. Send the request again in a moment.",
    "store_unavailable": "The database does not answer now. Send the request again in a moment.",
    "token_mistyped": "The credential is not a token of a Headcount service: it is mistyped or incomplete.",
    "token_needed": "Send a token in the header `Authorization: Bearer …`, or log in at /login.",
    "token_unknown": "The token is unknown, expired or revoked. Ask who runs the service for a new one.",
    "too_busy": "Too many requests are under way. Send the request again after Retry-After.",
    "too_many_requests": "This address asks too often. Send the request again after Retry-After.",
    "too_many_streams": "Too many live streams are open. Ask again after Retry-After.",
    "unsupported_media_type": "The body's Content-Type is not one that this path reads.",
}
"""By the code of the problem."""
