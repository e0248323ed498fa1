// Writes dashboards as TypeScript that is checked against Grafana's own types; for build.sh.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

// Enumerations of the types are texts in JSON.
console.log(`import type { Dashboard } from '@grafana/schema';
type Json<T> = T extends string ? \`\${T}\` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Json<U>[] : { [K in keyof T]: Json<T[K]> };`);
for (const path of process.argv.slice(2)) {
  console.log(`export const ${basename(path, '.json')}: Json<Dashboard> = ${readFileSync(path, 'utf8')};`);
}
