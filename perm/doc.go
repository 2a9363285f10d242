// Package perm decides, from rules alone, how much of each path below one root
// directory a sandbox may see or change.
//
// It does no I/O: it never touches a file, follows no link, and does not know what
// exists. The server of a tree asks it about every name that is looked up, either
// component by component with a [State], or about a whole path:
//
//	p, err := perm.Compile([]perm.Rule{
//		{Pattern: "**", Level: perm.Write},
//		{Pattern: ".env", Level: perm.None, Priority: perm.PrioritySecret},
//	})
//	p.Level("src/main.go", false) // write
//	p.Level("src/.env", false)    // none
//
// All errors match [ErrInvalid]. A [Policy] is safe for concurrent use; all other
// types are plain values.
//
// # Patterns
//
// A pattern is a list of components separated by single slashes. It is matched
// by bytes: names are not folded, normalized or decoded, so é as one code point
// and as two are different names, and ? is one byte.
//
//	?         one byte
//	*         any bytes, also none, and also a leading dot
//	[a-z_]    one byte of a set of ASCII bytes; [!a-z] or [^a-z] one byte not in it
//	{a,b{c,d}} alternatives; they are written out first, as in a shell, and may
//	          contain slashes
//	**        as a whole component: any number of components, also none
//	\c        the byte c itself, whatever it is; \xHH the byte of that value
//
// Only a leading slash anchors a pattern at the root. Every other pattern
// matches at any depth, also one with slashes inside: .git/config matches
// a/b/.git/config. A pattern that matches a directory covers all below it. A
// trailing slash, or /** at the end, restricts the match to a directory and all
// below it. A leading **/ makes the pattern unanchored and has no other effect.
//
// A pattern without a clear meaning is an error and not a pattern that silently
// does not match: an empty pattern, the components . and .., //, a NUL byte, ** inside
// a component, braces without a comma, unclosed braces and sets, named sets such
// as [:alpha:], bytes beyond ASCII in a set, a backslash before a slash or at the
// end, text that is not UTF-8 (so that a rule survives JSON; names need not be).
//
// A rule can except names (Except), not apply below directories of some names
// (NotBelow), match ASCII letters of either case (Fold; escaped bytes in a
// pattern keep their case), and apply to copies of files (Copies), whose names are
// made from those that the pattern matches:
//
//	.NAME.swp  and .NAME.swa to .swp, where NAME may have the dot; also .NAME.un~
//	#NAME#     and .#NAME
//	NAME~      and NAME.~1~
//	NAME.bak   and .backup, .old, .orig, .save, " copy", " - copy", with or without a
//	           number (.bak2, .save.1, " - copy (2)"), and " (copy)", in either case
//
// and from the names of copies in turn (NAME.bak~, .NAME.swp~), up to eight names. A copy of
// what a rule excepts is excepted, too, unless it may also be one of what the pattern matches.
//
// # Order
//
// Of the rules that match a path, the first in this order decides: higher
// priority; more specific pattern, which is an anchored one, then one of more
// literal components, then one of more literal bytes; kind of rule, file before
// directory before glob; stricter level. If no rule matches, the level is None.
// A rule with AtMost set does not decide: it limits the level that the rules after
// it give.
//
// A directory whose level would be None is View if a rule could make something
// below it visible. A rule that already hides the whole directory, and outranks
// the rule that could, prevents that.
//
// # Hazards
//
// The level of a path does not hold for another path of the same file: a server of
// hard links must decide on each name. Renaming a directory may change the levels
// below it unless the two states are equal.
//
// An unanchored pattern could match below any directory. So a rule such as
// secrets/a.txt=read of a high priority makes the name of every hidden directory
// visible, though nothing in it; /secrets/a.txt=read only the name of secrets.
package perm
