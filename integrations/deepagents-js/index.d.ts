import { BaseSandbox, type ExecuteResponse, type FileDownloadResponse, type FileUploadResponse } from "deepagents";

export interface WolffiaOptions {
  /** http://HOST:PORT of `wolffia serve`; else WOLFFIA_ADDRESS. fetch has no unix sockets. */
  address?: string;
  /** One of its --api-keys; else WOLFFIA_API_KEY. */
  key?: string;
  /** ORG/PROJECT/USER; else WOLFFIA_OWNER, else local/javascript/default. */
  owner?: string;
  /** How long a command may take, in seconds; 0: as long as it wants. Default 1800. */
  timeout?: number;
  /** How many bytes of output a command may have, at most 16 MiB. Default 8 MiB. */
  maxOutput?: number;
}

export interface CreateOptions extends WolffiaOptions {
  image?: string;
  env?: Record<string, string>;
  metadata?: Record<string, string>;
  /** Seconds after which the sandbox is destroyed. */
  ttl?: number;
  network?: "none" | "filtered";
  egress?: { allow: string[]; noNameCheck?: boolean };
  /** The sandbox has its own copy of the service's codebase. Default true. */
  cow?: boolean;
}

/** An error of the service: its code, such as notFound, and its message. */
export class WolffiaError extends Error {
  readonly code: string;
  readonly status: number;
  readonly result?: Record<string, unknown>;
}

/** A backend of deepagents in a sandbox of wolffia. */
export class WolffiaSandbox extends BaseSandbox {
  constructor(id: string, options?: WolffiaOptions);
  /** Makes a sandbox. The caller destroys it, or declares it with `await using`. */
  static create(options?: CreateOptions): Promise<WolffiaSandbox>;
  readonly id: string;
  execute(command: string): Promise<ExecuteResponse>;
  uploadFiles(files: Array<[string, Uint8Array]>): Promise<FileUploadResponse[]>;
  downloadFiles(paths: string[]): Promise<FileDownloadResponse[]>;
  destroy(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
