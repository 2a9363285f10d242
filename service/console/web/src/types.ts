// The answers of the API, as docs/console.md has them. All text in them can come from a sandbox.

export type State = "created" | "running" | "paused" | "stopped" | "dead";

export interface Sample {
  time: number;
  memory: number | null;
  cpu: number | null; // cores in use
  disk: number | null;
  received: number | null; // bytes a second
  sent: number | null;
}

export interface Sandbox {
  id: string;
  name: string;
  owner: string;
  backend: string;
  state: State;
  reason: string;
  createdAt: number;
  expiresAt: number;
  wakesOnUse: boolean;
  codebase: string;
  cow: boolean;
  filter: string;
  image: string;
  network: string;
  mountPoint: string;
  limits: { memory: number; disk: number; cpus: number; pids: number };
  idleSeconds: number;
  root: boolean;
  now: Sample | null;
  running?: string[] | null;
  denied?: number | null;
  refused?: number | null;
}

export interface Details extends Sandbox {
  metadata: Record<string, string> | null;
  publish: { address: string; port: number; inside: number }[] | null;
  mounts: { source: string; target: string; writable: boolean }[] | null;
  user: string;
  home: string;
  allow: string[] | null;
}

export interface Refused {
  time: string;
  op: string;
  name: string;
  address: string;
  port: number;
  program: string;
  reason: string;
  allow: string;
  count: number;
}

export interface Denied {
  time: string;
  since?: string;
  count?: number;
  dropped?: number;
  op?: string;
  path?: string;
  level?: string;
  rule?: string;
  source?: string;
  why?: string;
  reason?: string;
  allow?: string;
  command?: string;
  remedy?: string;
  refused?: Refused;
}

export interface Question {
  sandbox: string;
  id: string;
  kind: string; // network, write or reveal
  op: string;
  path?: string;
  level?: string;
  need?: string;
  dir?: boolean;
  host?: string; // NAME:PORT
  rule?: string;
  source?: string;
  secret?: boolean;
  pid?: number;
  program?: string;
  command?: string;
  time: string;
  until: string;
  count: number;
  recent: number;
  allow?: string;
  targets: string[] | null; // the narrowest first
}

export interface About {
  version: string;
  mode: "local" | "serve";
  all: boolean;
  owner: string;
  key: string;
  now: number;
  sampleSeconds: number;
  can: string[] | null;
}

export interface Session {
  name: string;
  shell: string;
  state: string;
  cwd: string;
  createdAt: string;
  jobs: number;
  terminal: { start: number; end: number; viewers: number } | null;
}

export interface Job {
  id: string;
  name: string;
  session: string;
  command: string;
  state: string;
  startedAt: string;
  endedAt?: string;
  exitCode?: number;
}

export interface Part {
  text: string;
  bytes?: string;
  from: number;
  next: number;
  end: number;
}

export interface Entry {
  name: string;
  nameBytes?: string;
  type: string;
  size: number;
  mode: number;
  modifiedAt: number;
  target?: string;
}

export interface Rule {
  rule: string;
  source?: string;
  reason?: string;
}

export interface Rules {
  mountPoint: string;
  filter: string;
  network: string;
  egress: { allow: string[] | null } | null;
  rules: Rule[] | null;
  text: string;
  preset: string;
  path?: { path: string; level: string; rule?: Rule; allow: string };
}

export interface Checked {
  ok: boolean;
  problems: { line: number; message: string }[] | null;
  paths: { path: string; now: string; then: string; rule?: Rule }[] | null;
  rules: number;
}

export interface Change {
  path: string;
  path64?: string;
  from?: string;
  kind: string;
  type: string;
  oldMode?: number;
  newMode?: number;
  size?: number;
  conflict?: string;
  denied?: string;
  unapplied?: string;
  added?: number;
  deleted?: number;
  binary?: boolean;
}

export interface Line {
  op: " " | "-" | "+";
  text: string;
  noEnd?: boolean;
}

export interface Hunk {
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
  lines: Line[];
}

export interface Diff {
  change: Change;
  digest: string;
  binary: boolean;
  truncated: boolean;
  hunks: Hunk[] | null;
  canHunks: boolean;
  why: string;
}

export interface Applied {
  applied: Change[] | null;
  left: Change[] | null;
  appliedMore?: number;
  leftMore?: number;
}

export interface Snapshot {
  name: string;
  createdAt: string;
  memory: boolean;
}

export interface Repository {
  dir: string;
  ahead: number;
  hosted: boolean;
}

export interface Evidence {
  seq: number;
  time: number;
  kind: string;
  sandbox: string;
  codebase: string;
  dir: string;
  command: string[] | null;
  exitCode?: number;
  durationMs?: number;
  denied?: number;
  refused?: number;
  notes?: string[] | null;
  question?: Question;
  answer?: { allow?: boolean; scope?: string; target?: string; by?: string };
  changes?: number;
  paths?: string[] | null;
  who: string;
  hash: string;
}
