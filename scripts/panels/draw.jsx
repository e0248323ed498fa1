// Draws a dashboard's panels with Grafana's own npm packages, without a Grafana server: real units, thresholds, overrides,
// legends and drawing of time series, stats and bar gauges. Not there: the panel plugins, which are not on npm, the variables'
// menu, transformations. What cannot be drawn, and what shows nothing, stands in window.problems.
import {
  applyFieldOverrides, createTheme, dateTime, FieldConfigOptionsRegistry, FieldType, getFieldDisplayValues, getValueFormats,
  ThemeContext, toDataFrame,
} from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

const COLUMN = 50, LINE = 34, GAP = 6;
const theme = createTheme();
const units = new Set(getValueFormats().flatMap((group) => group.submenu.map((unit) => unit.value)));
const problems = [];
const asked = new URLSearchParams(location.search);
const to = Math.floor(Number(asked.get('to'))), from = to - Math.ceil(Number(asked.get('span')));

// What the panel plugins set where a dashboard leaves it out.
const GREEN = { mode: 'absolute', steps: [{ value: null, color: 'green' }] };
const OWN = {
  timeseries: { color: { mode: 'palette-classic' } },
  stat: { color: { mode: 'thresholds' }, thresholds: GREEN },
  bargauge: { color: { mode: 'thresholds' }, thresholds: GREEN },
};

function filled(text, values) {
  return text.replace(/\$\{?(\w+)\}?/g, (all, name) => values[name] ?? all);
}

function registry(config) {
  const paths = ['unit', 'min', 'max', 'decimals', 'displayName', 'color', 'noValue', 'mappings', 'thresholds'];
  for (const override of config.overrides) for (const property of override.properties) paths.push(property.id);
  for (const name of Object.keys(config.defaults.custom ?? {})) paths.push(`custom.${name}`);
  const entry = (path) => ({ id: path, path, name: path, process: (value) => value, shouldApply: () => true });
  return new FieldConfigOptionsRegistry(() => [...new Set(paths)].map(entry));
}

function named(panel, target, labels) {
  return target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => {
    if (labels[label] === undefined) problems.push(`${panel.title}: no series has the label ${label}`);
    return labels[label] ?? '';
  });
}

async function series(panel, target, values) {
  const step = Math.max(1, Math.ceil((to - from) / 240));
  const query = new URLSearchParams({ query: filled(target.expr, values), start: from, end: to, step });
  const answer = await (await fetch(`/api/v1/query_range?${query}`)).json();
  if (answer.status !== 'success') {
    problems.push(`${panel.title}: ${answer.error}`);
    return [];
  }
  // Where nothing was scraped a line has a gap, as Grafana's data source makes it.
  const times = Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, n) => from + n * step);
  return answer.data.result.map((one) => {
    const found = new Map(one.values), value = (at) => (found.has(at) ? Number(found.get(at)) : null);
    return toDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: times.map((at) => at * 1000) },
        {
          name: 'Value', type: FieldType.number, labels: one.metric, values: times.map(value),
          config: { displayNameFromDS: named(panel, target, one.metric) },
        },
      ],
    });
  });
}

function Stats({ panel, config, data, width, height }) {
  const shown = getFieldDisplayValues({
    fieldConfig: config, reduceOptions: { calcs: ['lastNotNull'], ...panel.options?.reduceOptions },
    replaceVariables: (text) => text, theme, data, timeZone: 'utc', sparkline: true,
  });
  return <div style={{ display: 'flex' }}>{shown.map((one, n) => <BigValue key={n} width={width / shown.length} height={height}
    value={one.display} sparkline={one.sparkline} theme={theme} colorMode={panel.options?.colorMode ?? 'value'}
    graphMode={panel.options?.graphMode ?? 'area'} justifyMode="auto" textMode={panel.options?.textMode ?? 'auto'} />)}</div>;
}

function Bars({ panel, config, data, width, height }) {
  const shown = getFieldDisplayValues({
    fieldConfig: config, reduceOptions: { calcs: ['lastNotNull'], ...panel.options?.reduceOptions },
    replaceVariables: (text) => text, theme, data, timeZone: 'utc',
  });
  return shown.map((one, n) => <BarGauge key={n} width={width} height={height / shown.length} value={one.display} field={one.field}
    display={one.view?.getFieldDisplayProcessor(one.colIndex)} theme={theme} orientation="horizontal" />);
}

function Lines({ panel, data, width, height }) {
  const range = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: 'now', to: 'now' } };
  const legend = { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [], ...panel.options?.legend };
  return <TimeSeries frames={data} structureRev={1} width={width} height={height} timeRange={range} timeZone="utc" options={{}}
    legend={legend} />;
}

const KINDS = { timeseries: Lines, stat: Stats, bargauge: Bars };

function Panel({ panel, frames }) {
  const config = { overrides: [], ...panel.fieldConfig, defaults: { ...OWN[panel.type], ...panel.fieldConfig.defaults } };
  const data = applyFieldOverrides({
    data: frames, fieldConfig: config, replaceVariables: (text) => text, theme, timeZone: 'utc', fieldConfigRegistry: registry(config),
  });
  const Kind = KINDS[panel.type], { x, y, w, h } = panel.gridPos;
  return <div style={{ position: 'absolute', left: x * COLUMN, top: y * LINE }}>
    <PanelChrome title={panel.title} description={panel.description} width={w * COLUMN - GAP} height={h * LINE - GAP}>
      {(width, height) => !frames.length ? 'No data' : <Kind panel={panel} config={config} data={data} width={width} height={height} />}
    </PanelChrome></div>;
}

function Heading({ row }) {
  return <h2 style={{ position: 'absolute', left: 8, top: row.gridPos.y * LINE + 8, fontSize: 16, margin: 0 }}>{row.title}</h2>;
}

async function drawn() {
  const dashboard = await (await fetch('/dashboard.json')).json();
  const values = { job: '.+', namespace: asked.get('namespace'), __rate_interval: asked.get('rate'), __range: `${to - from}s` };
  const rows = dashboard.panels.filter((panel) => panel.type === 'row'), found = [];
  for (const panel of dashboard.panels.filter((one) => one.type !== 'row')) {
    if (KINDS[panel.type] === undefined) {
      problems.push(`${panel.title}: a panel of type ${panel.type} is not drawn`);
      continue;
    }
    if (!units.has(panel.fieldConfig.defaults.unit)) problems.push(`${panel.title}: no unit is ${panel.fieldConfig.defaults.unit}`);
    if (panel.transformations?.length) problems.push(`${panel.title}: transformations are not applied`);
    const frames = (await Promise.all(panel.targets.map((target) => series(panel, target, values)))).flat();
    if (!frames.length) problems.push(`${panel.title}: no data`);
    found.push({ panel, frames });
  }
  const below = Math.max(...found.map(({ panel }) => panel.gridPos.y + panel.gridPos.h));
  document.body.style.cssText = `margin:0;background:${theme.colors.background.canvas};color:${theme.colors.text.primary};font:14px sans-serif`;
  document.body.style.height = `${below * LINE}px`;
  createRoot(document.getElementById('root')).render(<ThemeContext.Provider value={theme}><GlobalStyles />
    {rows.map((row) => <Heading key={row.id} row={row} />)}
    {found.map(({ panel, frames }) => <Panel key={panel.id} panel={panel} frames={frames} />)}</ThemeContext.Provider>);
}

drawn().catch((error) => problems.push(String(error?.stack ?? error))).finally(() => {
  // The canvases of time series are drawn two frames after they are laid out.
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => { window.problems = problems; })));
});
