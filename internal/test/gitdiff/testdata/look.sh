# Prints what gogit and libgit2.py print, as git says it.
echo "HEAD $(git symbolic-ref HEAD)"
{
	git for-each-ref --format='ref %(objectname) %(refname)' refs/heads refs/tags refs/notes
	git log --format='commit %H %T'
	git ls-files -s | sed 's/^\([0-9]*\) \([0-9a-f]*\) 0\t/index \1 \2 /'
	git status --porcelain -uall --no-renames | sed 's/^/status /'
} | LC_ALL=C sort
