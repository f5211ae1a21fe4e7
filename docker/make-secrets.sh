#!/bin/sh
# Makes the secrets that compose.yaml hands to its containers; keeps those that are there. Needs openssl.
set -eu
cd "$(dirname "$0")/secrets"
umask 022  # containers read them as another user; the folder is for the owner alone
chmod 700 .
[ -s postgres_password ] || openssl rand -hex 24 > postgres_password
[ -s ray_token ] || openssl rand -hex 32 > ray_token
[ -s database_url ] || printf 'postgresql://headcount:%s@postgres/headcount\n' "$(cat postgres_password)" > database_url
