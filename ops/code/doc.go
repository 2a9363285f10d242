// Package code keeps kernels in sandboxes: processes that run cells of code, one after the other,
// and keep their state between them. What a kernel sends is the sandbox's word: its size and form
// are checked, its content is not.
package code
