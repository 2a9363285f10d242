// Package loadtest has many clients at once use each interface of wolffia serve, which is killed
// meanwhile.
package loadtest
