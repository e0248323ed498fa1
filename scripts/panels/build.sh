#!/usr/bin/env bash
# Grafana's npm packages, of the versions in package-lock.json, and the page that draws panels with them: once, into .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

HOME_OF=.venv/panels
wanted=$(cat scripts/panels/package-lock.json scripts/panels/draw.jsx scripts/panels/*.mjs | sha256sum)
[ "$(cat "$HOME_OF/.stamp" 2>/dev/null)" != "$wanted" ] || exit 0
mkdir -p "$HOME_OF"
cp scripts/panels/package.json scripts/panels/package-lock.json scripts/panels/draw.jsx scripts/panels/*.mjs "$HOME_OF"
cd "$HOME_OF"
if [ "$(cat .packages 2>/dev/null)" != "$(sha256sum <package-lock.json)" ]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    sha256sum <package-lock.json >.packages
fi
node_modules/.bin/esbuild draw.jsx --bundle --minify --jsx=automatic --outfile=draw.js --log-level=error \
    --define:process.env.NODE_ENV='"production"' --define:global=globalThis \
    --loader:.svg=dataurl --loader:.woff2=dataurl --loader:.png=dataurl --loader:.ttf=dataurl
echo "$wanted" >.stamp
