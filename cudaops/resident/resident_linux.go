// Package resident keeps the program's own pages out of memory until they are
// used. A kernel with large pages in its page cache maps two megabytes of a
// program around each byte that is touched: all of it counts as the process's
// memory then, although a command uses a third. Importing the package is enough.
// It needs so little itself that it is initialised before nearly all others.
package resident

import "syscall"

func init() { Release() }

// Release drops what is mapped of the program once more: what a command needed
// to start is of no use to it afterwards.
func Release() { trim("/proc/self/exe") }

// window is how much of the program is mapped at once, in bytes.
const window = 512 << 10

// Advice of madvise(2): no reading ahead, and dropping pages, which for files
// that nobody wrote to come back from the file.
const (
	adviceRandom   = 1
	adviceDontNeed = 4
)

// trim drops the read-only pages of the program at path, which is this one's,
// from memory and has the kernel map no more than a window at once: it never maps
// beyond an area of the address space, and areas whose neighbours have other
// advice stay apart. A program that is no ELF file at fixed addresses is left
// alone.
func trim(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	var b [4096]byte
	n, err := syscall.Pread(fd, b[:], 0)
	_ = syscall.Close(fd) // it was only read
	if err != nil {
		return
	}
	for _, s := range readOnly(b[:n]) {
		for from := s.from + window; from+window <= s.from+s.bytes; from += 2 * window {
			advise(from, window, adviceRandom)
		}
		advise(s.from, s.bytes, adviceDontNeed)
	}
}

// advise is madvise(2); advice that is not taken leaves things as they are.
func advise(from, bytes, advice uint64) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(from), uintptr(bytes), uintptr(advice))
}

// segment is a part of the address space.
type segment struct{ from, bytes uint64 }

// Of the ELF format, and the smallest page of Linux.
const (
	magic     = "\x7fELF\x02\x01" // 64 bits, little-endian
	typeExec  = 2                 // a program at fixed addresses
	typeLoad  = 1
	writable  = 2
	headBytes = 64
	partBytes = 56
	pageBytes = 4096
)

// readOnly lists the loaded segments that nothing writes to, in whole pages, from
// the first bytes of a 64-bit little-endian ELF program at fixed addresses.
func readOnly(b []byte) (out []segment) {
	if len(b) < headBytes || string(b[:len(magic)]) != magic || number(b[16:], 2) != typeExec {
		return nil
	}
	at, size, count := number(b[32:], 8), number(b[54:], 2), number(b[56:], 2)
	for i := range count {
		from := at + i*size
		if size < partBytes || from < at || from > uint64(len(b)) || from+partBytes > uint64(len(b)) {
			return out
		}
		part := b[from:]
		if number(part, 4) != typeLoad || number(part[4:], 4)&writable != 0 {
			continue
		}
		start, length := number(part[16:], 8), number(part[40:], 8)
		first, last := (start+pageBytes-1)&^(pageBytes-1), (start+length)&^(pageBytes-1)
		if last > first {
			out = append(out, segment{first, last - first})
		}
	}
	return out
}

// number reads n bytes, the smallest first. encoding/binary would have this
// package wait for others.
func number(b []byte, n int) (v uint64) {
	for i := range n {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}
