// Package asker has a person answer the questions of sandboxes.
package asker
