package gitindex

import "encoding/binary"

// git compresses bitmaps as EWAH (gitformat-bitmap(5), Appendix A): a marker word has the number
// of words of equal bits, and the number of literal words that follow it. This package writes no
// other words.
const (
	runBits, literalBits = 32, 31
	runOnes              = 1
)

// appendBitmap appends the bitmap of the given bits.
func appendBitmap(b []byte, bits []bool) []byte {
	words := (len(bits) + 63) / 64
	b = binary.BigEndian.AppendUint32(b, uint32(len(bits)))
	b = binary.BigEndian.AppendUint32(b, uint32(words+1))
	b = binary.BigEndian.AppendUint64(b, uint64(words)<<(1+runBits))
	for w := range words {
		var word uint64
		for i, bit := range bits[w*64 : min(len(bits), w*64+64)] {
			if bit {
				word |= 1 << i
			}
		}
		b = binary.BigEndian.AppendUint64(b, word)
	}
	return binary.BigEndian.AppendUint32(b, 0) // where the last marker is
}

// bitmap decodes the first n bits of the bitmap at the beginning of b, and returns what follows
// it; nil if it is damaged.
func bitmap(b []byte, n int) (bits []bool, rest []byte) {
	if len(b) < 8 {
		return nil, nil
	}
	words := int(binary.BigEndian.Uint32(b[4:]))
	if words > (len(b)-12)/8 {
		return nil, nil
	}
	bits, rest = make([]bool, n), b[8+8*words+4:]
	b = b[8 : 8+8*words]
	at := uint64(0)
	set := func(word uint64) {
		for i := at; word != 0 && i < uint64(n); i++ {
			bits[i] = word&1 != 0
			word >>= 1
		}
		at += 64
	}
	for len(b) > 0 {
		marker := binary.BigEndian.Uint64(b)
		b = b[8:]
		run, literal := marker>>1&(1<<runBits-1), marker>>(1+runBits)
		if literal > uint64(len(b)/8) {
			return nil, nil
		}
		for ; run > 0 && at < uint64(n); run-- {
			set(-(marker & runOnes))
		}
		at += 64 * run
		for range literal {
			set(binary.BigEndian.Uint64(b))
			b = b[8:]
		}
	}
	return bits, rest
}
