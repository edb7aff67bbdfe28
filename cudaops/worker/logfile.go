package worker

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"aicplan/sink/base/textutil"
)

// DefaultLogLimit bounds the log of one slot over all its processes, in bytes.
const DefaultLogLimit = 16 << 20

// tailBytes is how much of a process's last output is kept for messages. The crash report
// of a runtime with many threads is long.
const tailBytes = 64 << 10

// logFile stores the output of a worker. It stops writing at its limit and continues to read,
// so that a worker that prints 100 MB is neither blocked nor fills the disk.
type logFile struct {
	mu      sync.Mutex
	file    *os.File // nil discards
	room    int64    // bytes that may still be written
	dropped int64
	tail    []byte // at least the last tailBytes of output
	done    chan struct{}
	secrets *textutil.Secrets
	held    []byte // the end of the output, in which a secret may have begun
}

// openLog opens the log of a slot for one more process.
func openLog(path string, limit int64, head string) (*logFile, error) {
	l := &logFile{done: make(chan struct{})}
	if path == "" {
		return l, nil
	}

	if limit <= 0 {
		limit = DefaultLogLimit
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("worker log: %w", err)
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("worker log: %w", err)
	}

	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("worker log: %w", err)
	}

	l.file, l.room = f, limit-info.Size()
	l.mark("%s", head)
	return l, nil
}

// mark writes a line of aicplan, which has a prefix.
func (l *logFile) mark(format string, args ...any) {
	if l.file == nil {
		return
	}

	line := fmt.Sprintf("--- aicplan: "+format+"\n", args...)
	n, err := l.file.WriteString(line)
	l.room -= int64(n)
	if err != nil {
		l.giveUp()
	}
}

// giveUp stops writing, because the disk may be full.
func (l *logFile) giveUp() {
	l.file.Close()
	l.file = nil
}

// drain reads until the end of r.
func (l *logFile) drain(r io.Reader) {
	defer close(l.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if l.secrets == nil {
			l.write(buf[:n])
		} else {
			l.withoutSecrets(buf[:n], err != nil)
		}

		if err != nil {
			return
		}
	}
}

// withoutSecrets writes the output without secrets. It holds back the bytes in which a secret
// may have begun until the last call.
func (l *logFile) withoutSecrets(b []byte, last bool) {
	l.held = l.secrets.Bytes(append(l.held, b...))
	n := len(l.held)
	if !last {
		n = max(0, n-l.secrets.Longest()+1)
	}

	l.write(l.held[:n])
	l.held = append([]byte(nil), l.held[n:]...)
}

func (l *logFile) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail = append(l.tail, b...); len(l.tail) > 2*tailBytes {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-tailBytes:]...)
	}

	if l.file == nil {
		return
	}

	if l.room <= 0 {
		l.dropped += int64(len(b))
		return
	}

	keep := b[:min(int64(len(b)), l.room)]
	n, err := l.file.Write(keep)
	l.room -= int64(n)
	if err != nil {
		l.giveUp()
		return
	}

	if l.room <= 0 {
		l.dropped += int64(len(b) - len(keep))
		l.mark("the log has reached its limit; what follows is dropped")
	}
}

// lastLines returns the end of the output.
func (l *logFile) lastLines() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.tail[max(0, len(l.tail)-tailBytes):])
}

// close closes the log once its reader is done.
func (l *logFile) close(how string) {
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}

	if l.dropped > 0 {
		l.mark("%d bytes were dropped", l.dropped)
	}

	l.mark("%s", how)
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
