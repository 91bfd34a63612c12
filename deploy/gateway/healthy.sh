#!/bin/sh
# Whether the gateway answers, asked with the first of its tokens: a secret alone, name:role:secret, or the one that it made up.
tokens="${FRESHTABLE_SQL_GATEWAY_SECURITY_TOKENS:-generate}"
token="${tokens%%,*}"
[ "$token" != generate ] || token="$(cat "/data/token")"
# The port of the environment, else of the settings file ($1), as the gateway has it.
port="${FRESHTABLE_SQL_GATEWAY_ENDPOINT_REST_PORT:-$(sed -n 's/^sql-gateway\.endpoint\.rest\.port: *["'"'"']\{0,1\}\([0-9]*\).*/\1/p' "${1:-/etc/freshtable.yaml}" 2>/dev/null)}"
exec curl --fail --silent --show-error --header "Authorization: Bearer ${token#*:*:}" "http://127.0.0.1:${port:-8083}/v3/info"
