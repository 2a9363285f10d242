// Package asker shows the questions of sandboxes to a person, and takes the answers.
package asker
