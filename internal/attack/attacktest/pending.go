package attacktest

// pending are rows that may differ from the table until what they found is mended.
// The list must become empty.
var pending = []string{
	"tree.hardlink",               // M1
	"proc.pid_max", "proc.shmmax", // L5
	"proc.keys",                              // B1 of the anchors: Docker's masked paths
	"self.core",                              // L3
	"limit.rlimits",                          // M4
	"limit.disk-append", "limit.tree-memory", // H4, H5
	"net.mounted",                                                                                                  // H6
	"pid1.setown", "pid1.setown-group", "pid1.setown-ex", "pid1.setown-thread", "pid1.fiosetown", "pid1.siocspgrp", // M5
	"pid1.procfd", "pid1.procfd-queue", // M5, by pidfd_send_signal
}
