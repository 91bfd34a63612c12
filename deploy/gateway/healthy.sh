#!/bin/sh
# Whether the gateway answers, asked with the first of its tokens: a secret alone, name:role:secret, or the one that it made up.
tokens="${FRESHTABLE_SQL_GATEWAY_SECURITY_TOKENS:-generate}"
token="${tokens%%,*}"
[ "$token" != generate ] || token="$(cat "/data/token")"
exec curl --fail --silent --show-error --header "Authorization: Bearer ${token#*:*:}" "${1:-http://127.0.0.1:8083}/v3/info"
