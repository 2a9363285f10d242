// Package gitmodel tests that git inside, which asks the tree server what has changed, sees what
// git sees that looks at each file.
package gitmodel
