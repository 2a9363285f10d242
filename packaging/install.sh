#!/bin/sh
# Installs wolffia from a release: for root below /usr/local, for others below ~/.local.
#
#	sh install.sh                 install, or upgrade
#	sh install.sh --remove        remove what it has installed
#
# PREFIX: another place. WOLFFIA_URL: where the files of the release are.
# It installs what the key below has signed. scripts/dist fills in the version, the address and the key.
set -eu
version='@VERSION@' url=${WOLFFIA_URL:-'@URL@'} key='@KEY@'
insecure='' remove=''
say() { echo "install.sh: $*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
for argument in "$@"; do
	case $argument in
	--insecure-skip-signature) insecure=yes ;;
	--remove) remove=yes ;;
	*) fail "unknown argument \"$argument\"; known are --remove and --insecure-skip-signature" ;;
	esac
done
if [ -n "${PREFIX:-}" ]; then prefix=$PREFIX
elif [ "$(id -u)" = 0 ]; then prefix=/usr/local
else prefix=${HOME:?is not set: set PREFIX}/.local; fi
list=$prefix/share/wolffia/installed # the files, for --remove

if [ -n "$remove" ]; then
	[ -f "$list" ] || fail "$list does not exist: this script has installed nothing below $prefix; PREFIX= names another place"
	while read -r file; do rm -f "$prefix/$file"; done <"$list"
	rm -f "$list"
	rmdir "$prefix/share/wolffia" 2>/dev/null || true
	say "removed below $prefix; sandboxes and images remain in ~/.local/state/wolffia"
	exit 0
fi

[ -n "$url" ] || fail "the address of the release is unknown: set WOLFFIA_URL"
[ "$(uname -s)" = Linux ] || fail "wolffia runs on Linux only, this is $(uname -s)"
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "no release for $(uname -m): there are x86_64 and aarch64" ;;
esac
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# get NAME downloads a file of the release.
get() {
	if have curl; then curl -fsSL -o "$work/$1" "$url/$1"
	elif have wget; then wget -q -O "$work/$1" "$url/$1"
	else fail "curl and wget are missing: install one"; fi || fail "cannot download $url/$1"
}

# verify checks the signature of SHA256SUMS with minisign, else with OpenSSL. The signature file has
# 2 bytes that say how it signs (ED: the BLAKE2b digest), 8 of the key's id, 64 of Ed25519; the key 2, 8, 32.
verify() {
	if have minisign; then
		minisign -V -q -P "$key" -x "$work/SHA256SUMS.minisig" -m "$work/SHA256SUMS"
		return
	fi
	case $(openssl version 2>/dev/null) in
	'OpenSSL '[3-9]*) ;;
	*) fail "minisign and OpenSSL 3 are missing: install one, to verify the signature" ;;
	esac
	sed -n 2p "$work/SHA256SUMS.minisig" | base64 -d >"$work/sig" || return 1
	echo "$key" | base64 -d >"$work/key" || return 1
	[ "$(wc -c <"$work/sig")" = 74 ] && [ "$(wc -c <"$work/key")" = 42 ] && [ "$(head -c 2 "$work/sig")" = ED ] || return 1
	# An Ed25519 key in DER begins with these 12 bytes.
	{ printf '\060\052\060\005\006\003\053\145\160\003\041\000' && tail -c 32 "$work/key"; } >"$work/der"
	tail -c 64 "$work/sig" >"$work/raw"
	openssl dgst -blake2b512 -binary -out "$work/digest" "$work/SHA256SUMS" &&
		openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/der" -rawin -in "$work/digest" -sigfile "$work/raw" >/dev/null
}

get SHA256SUMS
if [ -n "$insecure" ]; then
	say "WARNING: the signature is not verified"
elif [ -z "$key" ]; then
	fail "this release is not signed: get a signed one, or check SHA256SUMS yourself and add --insecure-skip-signature"
else
	get SHA256SUMS.minisig
	verify || fail "the signature of SHA256SUMS is wrong: $url does not have what the project has released"
fi
name=wolffia_${version}_linux_$arch
grep "  $name.tar.gz\$" "$work/SHA256SUMS" >"$work/line" || fail "$url has no $name.tar.gz"
get "$name.tar.gz"
(cd "$work" && sha256sum -c line >/dev/null 2>&1) || fail "$name.tar.gz is damaged: download it again"
tar -xzf "$work/$name.tar.gz" -C "$work"

mkdir -p "$prefix/bin" "${list%/*}"
cd "$work/$name"
# program FILE PLACE puts it there, by another name first: a program that runs cannot be written to.
program() {
	mkdir -p "$prefix/${2%/*}"
	cp "$1" "$prefix/$2.new"
	chmod 755 "$prefix/$2.new"
	mv -f "$prefix/$2.new" "$prefix/$2"
	echo "$2" >>"$work/files"
}
program wolffia bin/wolffia
[ ! -e wolffia-bwrap ] || program wolffia-bwrap lib/wolffia/wolffia-bwrap
[ ! -f "$list" ] || while read -r file; do grep -qx "$file" "$work/files" || rm -f "$prefix/$file"; done <"$list"
find share -type f >>"$work/files"
find share -type f | while read -r file; do
	mkdir -p "$prefix/${file%/*}"
	cp "$file" "$prefix/$file"
	chmod 644 "$prefix/$file"
done
cp "$work/files" "$list"
say "installed below $prefix: $("$prefix/bin/wolffia" --version); wolffia doctor says what this host lacks"
case :$PATH: in *:"$prefix/bin":*) ;; *) say "$prefix/bin is not in PATH: add it" ;; esac
