# gitstests.sh CACHE: prints the directory with the tests of the installed git: it fetches its source from the mirrors of apt and builds
# what they need, once for each version.
set -eu
cache=$1
version=$(dpkg-query -W -f '${source:Version}' git)
dir=$cache/git-$version
[ ! -d "$dir" ] || { echo "$dir"; exit 0; }
mkdir -p "$cache"
work=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial archives/partial
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Component: main' |
	grep " $(. /etc/os-release && echo "$VERSION_CODENAME")" | sort -u >sources.list
apt="apt-get -qq -o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$work/lists
	-o Dir::Cache::archives=$work/archives -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=$(id -un)"
$apt update >&2
$apt source --download-only "git=$version" >&2
dpkg-source --no-check -x ./*.dsc source >&2
cd source
make -s -j"$(nproc)" NO_CURL=1 NO_EXPAT=1 NO_OPENSSL=1 NO_GETTEXT=1 NO_TCLTK=1 NO_PYTHON=1 t/helper/test-tool GIT-BUILD-OPTIONS >&2
make -s -C templates >&2
mkdir "$work/done"
cp -r GIT-BUILD-OPTIONS t templates "$work/done"
rm -rf "$work/done/t/perf"
find "$work/done" -name '*.o' -delete
mv "$work/done" "$dir"
echo "$dir"
