// Draws one dashboard by Grafana's packages in Chromium, from what a Prometheus has, into a PNG; prints what is wrong with it.
//
//   node draw.mjs PROMETHEUS_URL DASHBOARD.json OUT.png TO_S SPAN_S RATE NAMESPACES
//
// Status 1 where a panel shows nothing, cannot be drawn, or names a label or a unit that there is not.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

const [prometheus, dashboard, out, to, span, rate, namespace] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const PAGE = '<!doctype html><meta charset=utf-8><link rel=icon href=data:,><link rel=stylesheet href=/draw.css><div id=root></div><script src=/draw.js></script>';

async function answer(request, response) {
  const { url } = request;
  if (url.startsWith('/api/')) {
    const told = await fetch(prometheus + url);
    response.writeHead(told.status, { 'content-type': 'application/json' }).end(await told.text());
  } else if (url === '/dashboard.json') {
    response.writeHead(200, { 'content-type': 'application/json' }).end(await readFile(dashboard));
  } else if (url === '/draw.js' || url === '/draw.css') {
    response.writeHead(200, { 'content-type': url.endsWith('js') ? 'text/javascript' : 'text/css' }).end(await readFile(join(here, url)));
  } else if (url.startsWith('/?')) {
    response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE);
  } else {
    response.writeHead(404).end();
  }
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => response.writeHead(500).end(String(error)));
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
const problems = [];
page.on('pageerror', (error) => problems.push(String(error).slice(0, 300)));
const asked = new URLSearchParams({ to, span, rate, namespace });
await page.goto(`http://127.0.0.1:${server.address().port}/?${asked}`);
await page.waitForFunction('window.problems !== undefined', null, { timeout: 60_000 });
problems.push(...await page.evaluate('window.problems'));
await page.screenshot({ path: out, fullPage: true });
await browser.close();
server.close();
for (const problem of new Set(problems)) console.log(problem);
process.exitCode = problems.length ? 1 : 0;
