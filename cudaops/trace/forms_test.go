package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

func packed16(text string) string {
	var b bytes.Buffer
	b.WriteString("\xff\xfe")
	_ = binary.Write(&b, binary.LittleEndian, utf16.Encode([]rune(text))) // into memory
	return b.String()
}

// What stands behind a trace, or damages the end of its file, is told of; the
// trace counts.
func TestTails(t *testing.T) {
	t.Parallel()
	text := `{"traceEvents": [` + event("a", 1, 1, 0) + `], "x": 1}`
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // into memory
	_ = z.Close()
	gz := b.String()
	wrong := []byte(gz)
	wrong[len(wrong)-6] ^= 1 // of the checksum
	for _, c := range []struct{ name, in, want string }{
		{"white space", text + " \n\t", ""},
		{"garbage", text + "garbage", "7 bytes behind the end of the trace were not read"},
		{"a list with garbage", "[" + event("a", 1, 1, 0) + "]]", "1 bytes behind"},
		{"a second trace", gz + gz, " bytes behind the end of the trace were not read"},
		{"gzip with garbage", gz + "garbage garbage", "the trace is whole, but the end of the file cannot be read: gzip"},
		{"gzip without its end", gz[:len(gz)-4], "the trace is whole, but the end of the file cannot be read: unexpected EOF"},
		{"gzip with a wrong checksum", string(wrong), "the trace is whole, but the end of the file cannot be read: gzip: invalid checksum"},
		{"byte order mark", "\ufeff" + text, ""},
	} {
		r := read(t, c.in)[0]
		if r.Kernels != 1 || c.want == "" && r.Warning != "" || !strings.Contains(r.Warning, c.want) {
			t.Errorf("%s: %d kernels, warning %q, want %q", c.name, r.Kernels, r.Warning, c.want)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"t.json.zst", "\x28\xb5\x2f\xfdxxx", "compressed by zstd"},
		{"t.json.gz", "PK\x03\x04xxx", "zip archive"},
		{"t.json", packed16("[]"), "UTF-16"},
		{"r.sqlite", "SQLite format 3\x00xx", "nsys stats --report cuda_gpu_trace"},
		{"r.nsys-rep", "xxxx", "report of nsys"},
		{"r.qdstrm", "xxxx", "QdstrmImporter"},
		{"r.csv", "Processing [r.sqlite] with [cuda_gpu_trace.py]... \nSKIPPED: r.sqlite does not contain CUDA trace data.\n", "nothing to report: r.sqlite does not contain CUDA trace data."},
	} {
		if _, err := ReadFrom(strings.NewReader(c.in), c.name, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

const (
	traceTable = "Start (ns),Duration (ns),CorrId,GrdX,Device,Name\n100,50,1,8,d,ncclDevKernel_AllReduce_x\n120,100,2,8,d,\"gemm<a, b>\"\n5,5,3,,d,[CUDA memset]\n"
	sumTable   = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n66.6,100,1,100.0,\"gemm<a, b>\"\n33.3,50,1,50.0,ncclDevKernel_AllReduce_x\n"
)

// All that nsys stats has called its reports and units says the same.
func TestReportsOfNsys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in string }{
		{"as it is", traceTable},
		{"of 2020", strings.NewReplacer("Start (ns)", "Start(nsec)", "Duration (ns)", "Duration(nsec)").Replace(traceTable)},
		{"in microseconds", "Start (us),Duration (us),CorrId,GrdX,Device,Name\n0.100,0.050,1,8,d,ncclDevKernel_AllReduce_x\n0.120,0.1,2,8,d,gemm\n"},
		{"in seconds", "Start (s),Duration (s),CorrId,GrdX,Device,Name\n0.0000001,0.00000005,1,8,d,ncclDevKernel_AllReduce_x\n0.00000012,0.0000001,2,8,d,gemm\n"},
		{"with its launches", "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n1,5,,,100,50,1,1,1,0,cuLaunchKernelEx, 1 1 1, 1 1 1,ncclDevKernel_AllReduce_x\n2,5,,,120,100,1,1,1,0,cuLaunchKernelEx, 1 1 1, 1 1 1,gemm\n"},
		{"a sum behind it", traceTable + "\nProcessing [r.sqlite] with [cuda_gpu_kern_sum.py]... \n\n" + sumTable},
		{"a sum before it", sumTable + "\n" + traceTable},
		{"a time before the beginning of time", traceTable + "200,-5,4,8,d,gemm\n"},
	} {
		r := read(t, c.in)[0]
		if r.Kernels != 2 || *r.SpanNs != 120 || *r.CommSumNs != 50 || *r.ExposedCommNs != 20 || len(r.Collectives) != 1 {
			t.Errorf("%s: %s", c.name, dump(r))
		}
		if r.Warning != "" && !strings.Contains(c.in, "-5") {
			t.Errorf("%s: %s", c.name, r.Warning)
		}
	}
}

// A summary knows counts and sums; what it does not know is null.
func TestSummaryOfNsys(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		sumTable,
		"Time (%),Total Time (us),Instances,Category,Operation\n1,0.1,1,CUDA_KERNEL,gemm\n1,0.05,1,CUDA_KERNEL,ncclDevKernel_AllReduce_x\n1,9,9,MEMORY_OPER,[CUDA memset]\n",
	} {
		r := read(t, in)[0]
		if r.Kernels != 2 || *r.CommSumNs != 50 || r.Collectives[0].Count != 1 || r.SpanNs != nil || r.CommUnionNs != nil || r.ExposedCommNs != nil || r.IdleNs != nil || r.Error != "" {
			t.Error(dump(r))
		}
		if !strings.Contains(r.Warning, "a summary has no times of single kernels") {
			t.Error(r.Warning)
		}
	}
	for in, want := range map[string]string{
		"Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,5,1,5,cudaLaunchKernel\n": "there are Time (%),Total Time (ns),Num Calls",
		strings.Replace(sumTable, "100,1,", "100,x,", 1):                               `line 2: the columns Instances and Total Time (ns) are "x" and "100"`,
	} {
		if _, err := ReadFrom(strings.NewReader(in), "x.csv", Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
