// Package container keeps docker's containers: each is a sandbox on an image, with a main process.
// What docker's options ask for it translates, or refuses; it drops none.
//
// The sandbox runs from Create to Remove, so that files can be copied also while the main process
// does not run. Its labels have the container's record, so any process over the same state
// directory finds it.
package container
