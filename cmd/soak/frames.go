package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
)

// rows counts how often each case has a measured row in the journals, by journal
// and id. It reads the files itself, since the program under test leaves out what
// it has twice. The form of a frame is that of engine/checkpoint.
func (t *trial) rows() map[string]int {
	out := map[string]int{}
	table := crc32.MakeTable(crc32.Castagnoli)
	for _, path := range t.files(".aicplan/journal") {
		if !strings.HasSuffix(path, ".seg") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it is being replaced
		}
		for {
			at := bytes.Index(b, []byte("\xacJf\x1e"))
			if at < 0 || len(b) < at+12 {
				break
			}
			b = b[at:]
			size := int(binary.LittleEndian.Uint32(b[4:]))
			if size > len(b)-12 || crc32.Update(crc32.Checksum(b[4:8], table), table, b[12:12+size]) != binary.LittleEndian.Uint32(b[8:]) {
				b = b[4:]
				continue
			}
			body := b[12 : 12+size]
			b = b[12+size:]
			if size < 2 || body[0] != 'm' {
				continue
			}
			if n, w := binary.Uvarint(body[1:]); w > 0 && n <= uint64(size-1-w) {
				out[filepath.Dir(path)+" "+string(body[1+w:][:n])]++
			}
		}
	}
	return out
}

// again is how many of these rows are gone or have been measured once more.
func (t *trial) again(before map[string]int) (n int) {
	now := t.rows()
	for id, times := range before {
		if now[id] == 0 || now[id] > times {
			n++
		}
	}
	return n
}
