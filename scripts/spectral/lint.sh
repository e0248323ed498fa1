#!/usr/bin/env bash
# Lints the OpenAPI document with spectral, of the versions in package-lock.json; they are installed once, into .venv.
# Without npm it says so and passes, but in CI.
set -euo pipefail
cd "$(dirname "$0")/../.."

HOME_OF=.venv/spectral
if ! command -v npm >/dev/null; then
    echo "spectral is not run: there is no npm on the path (Debian: apt-get install npm)" >&2
    [ "${CI:-}" != true ] || exit 1
    exit 0
fi
wanted=$(sha256sum <scripts/spectral/package-lock.json)
if [ "$(cat "$HOME_OF/.stamp" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$HOME_OF" && mkdir -p "$HOME_OF"
    cp scripts/spectral/package.json scripts/spectral/package-lock.json "$HOME_OF"
    npm ci --prefix "$HOME_OF" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    echo "$wanted" >"$HOME_OF/.stamp"
fi
"$HOME_OF/node_modules/.bin/spectral" lint --quiet --fail-severity=warn \
    -r scripts/spectral/ruleset.yaml "${1:-service/oncegate/transports/http/openapi/openapi.json}"
