// Notes which methods of the SDK's objects there are, and which of them the driver calls.

// internal are methods that the SDK has for itself: its types do not have them.
const internal = new Set([
  "buildRunStreamSpec", "buildRunInSessionStreamSpec", "streamExecution", "consumeExecutionStream", "fetch", "sseFetch", "rawFetch",
  "parseIsoDate", "parseOptionalIsoDate", "mapApiFileInfo", "mapSnapshotInfo", "mapSandboxInfo", "uploadFile", "downloadStream",
  "jsonRequest", "requestJson", "readErrorResponse", "credentialVaultUrl", "fetchSandboxEndpoint", "_get", "_run", "_delete", "constructor",
]);
const there = new Set();
const driven = new Set();

// spy returns target; calls of its methods by way of what is returned are noted.
export function spy(name, target) {
  for (let o = target; o && o !== Object.prototype && o !== Function.prototype; o = Object.getPrototypeOf(o)) {
    for (const [key, d] of Object.entries(Object.getOwnPropertyDescriptors(o))) {
      if (typeof d.value === "function" && !internal.has(key)) there.add(`${name}.${key}`);
    }
  }
  return new Proxy(target, {
    get(_, key) {
      const value = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      return (...args) => {
        driven.add(`${name}.${String(key)}`);
        return value.apply(target, args);
      };
    },
  });
}

// missed returns the methods that no call was noted of.
export const missed = () => [...there].filter((name) => !driven.has(name)).sort();
