package benchproto

import (
	"bufio"
	"fmt"
	"io"

	"aicplan/cudaops/measure"
)

// Traced is one visit to one shape.
type Traced struct {
	Protocol string
	Run      int // of the protocol, from 0
	Index    int // of the shape in the sample
	Shape    Shape
	Visit    measure.Visit
}

// TraceWriter writes visits as CSV.
type TraceWriter struct{ w *bufio.Writer }

// NewTraceWriter writes the header.
func NewTraceWriter(w io.Writer) *TraceWriter {
	t := &TraceWriter{bufio.NewWriter(w)}
	fmt.Fprintln(t.w, "protocol,run,index,m,n,k,visit,at_us,idle_us,heat_j,hot,look,discarded,ready_mhz,blocks")
	return t
}

// Add writes one visit: its blocks as microseconds:executions:MHz, one after the
// other.
func (t *TraceWriter) Add(x Traced) {
	v := x.Visit
	fmt.Fprintf(t.w, "%s,%d,%d,%d,%d,%d,%d,%d,%d,%.3f,%t,%t,%t,", x.Protocol, x.Run, x.Index, x.Shape.M, x.Shape.N, x.Shape.K,
		v.Number, v.At.Microseconds(), v.Idle.Microseconds(), v.Heat, v.Hot, v.Look, v.Discarded)
	if len(v.Blocks) > 0 {
		fmt.Fprintf(t.w, "%.0f", v.Blocks[0].ReadyMHz)
	}
	t.w.WriteByte(',')
	for i, b := range v.Blocks {
		if i > 0 {
			t.w.WriteByte(';')
		}
		fmt.Fprintf(t.w, "%.2f:%d:%.1f", b.Seconds*1e6, b.Executions, b.ClockMHz)
	}
	t.w.WriteByte('\n')
}

// Flush brings everything to the underlying writer and returns the first error.
func (t *TraceWriter) Flush() error { return t.w.Flush() }
