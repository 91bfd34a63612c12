#!/bin/sh
# Makes up the passwords, tokens and keys of compose.yaml, once, and writes them to .env beside it, which Docker Compose reads.
set -eu
file="$(dirname "$0")/.env"
if [ -e "$file" ]; then
    echo "$file is there already; remove it, and the volumes of Docker, to start over."
    exit 0
fi
random() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
umask 077
cat > "$file.new" <<END
FRESHTABLE_ADMIN_TOKEN=$(random 24)
FRESHTABLE_AIRFLOW_TOKEN=$(random 24)
AIRFLOW_ADMIN_PASSWORD=$(random 12)
AIRFLOW_FRESHTABLE_PASSWORD=$(random 24)
POSTGRES_PASSWORD=$(random 24)
AIRFLOW_DATABASE_PASSWORD=$(random 24)
FRESHTABLE_DATABASE_PASSWORD=$(random 24)
AIRFLOW_FERNET_KEY=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')
AIRFLOW_SECRET_KEY=$(random 32)
AIRFLOW_JWT_SECRET=$(random 64)
END
mv "$file.new" "$file"
echo "Wrote $file: AIRFLOW_ADMIN_PASSWORD is for Airflow's user admin, FRESHTABLE_ADMIN_TOKEN for the gateway."
