package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// tables of the versions of nsys that write a table of CUDA devices.
const exported = `
CREATE TABLE StringIds (id INTEGER, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_x'), (3, 'ProfilerStep#1');
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200'), (1, 'NVIDIA H200');
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, numMultiprocessors INTEGER);
INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 7, 132), (1, 0, 8, 132);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (100, 200, 0, 7, 1, 281474976710656 + 7 * 0x1000000, 1, 66, 1, 1),
  (150, 260, 0, 8, 2, 281474976710656 + 7 * 0x1000000, 2, 11, 12, 2),
  (150, 190, 0, 8, 2, 281474976710656 + 8 * 0x1000000, 2, 132, 1, 1);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (90, 110, 0, 281474976710656 + 7 * 0x1000000), (100, 130, 0, 281474976710656 + 7 * 0x1000000);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER);
INSERT INTO NVTX_EVENTS VALUES (120, 180, NULL, 3), (130, 140, 'aten::view', NULL), (1, NULL, 'ProfilerStep#0', NULL);
`

// sqliteFile returns the path of a database made by SQL.
func sqliteFile(t *testing.T, sql string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report #1?.sqlite")
	db, err := sqlite3.Open("file:" + strings.NewReplacer("#", "%23", "?", "%3f").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// An export of nsys gives the figures of its kernels, per GPU, also if every process calls its GPU device 0.
func TestSQLite(t *testing.T) {
	t.Parallel()
	got, err := Read(sqliteFile(t, exported), Options{})
	if err != nil || len(got) != 2 {
		t.Fatalf("%d results, %v", len(got), err)
	}

	a, b := got[0], got[1]
	if a.Device != "0" || b.Device != "1" || a.Format != "nsys" || a.Meta.Device != "NVIDIA H200" {
		t.Errorf("devices %s and %s, %s, %s", a.Device, b.Device, a.Format, a.Meta.Device)
	}
	if a.Kernels != 2 || *a.SpanNs != 160 || *a.BusyNs != 160 || *a.CommUnionNs != 110 || *a.ExposedCommNs != 60 ||
		*a.CopyNs != 40 {
		t.Errorf("%s", dump(a))
	}
	if *a.SMCoverage != 100*(0.5*100+110)/210 || b.Kernels != 1 || *b.SMCoverage != 100 || *b.CopyNs != 0 {
		t.Errorf("%s\n%s", dump(a), dump(b))
	}
	if a.Steps != 1 || a.PerStep[0].Name != "ProfilerStep#1" || a.PerStep[0].BusyNs != 60 ||
		*a.PerStep[0].CommUnionNs != 30 {
		t.Errorf("%s", dump(a.PerStep))
	}

	// What has no start is left out. It does not begin at 0.
	got, err = Read(sqliteFile(t, exported+`INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (NULL, 200, 0, 7, 9, 281474976710656 + 7 * 0x1000000, 1, 1, 1, 1), (0, 0, 0, 7, 8, 281474976710656 + 7 * 0x1000000, 1, 1, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (NULL, 130, 0, 281474976710656 + 7 * 0x1000000);
INSERT INTO NVTX_EVENTS VALUES (NULL, 180, 'ProfilerStep#2', NULL);`), Options{})
	if err != nil || got[0].Kernels != 2 || *got[0].SpanNs != 160 || *got[0].CopyNs != 40 || got[0].Steps != 1 ||
		got[0].Warning != "left out: 2 kernels without a usable time" {
		t.Errorf("%s, %v", dump(got), err)
	}

	// Without a table of devices, a device belongs to its process.
	old := "DROP TABLE TARGET_INFO_CUDA_DEVICE; DROP TABLE TARGET_INFO_GPU; DROP TABLE NVTX_EVENTS; DROP TABLE " +
		"CUPTI_ACTIVITY_KIND_MEMCPY;"
	got, err = Read(sqliteFile(t, exported+old), Options{})
	if err != nil || len(got) != 2 || got[0].Device != "0 of 7" || got[1].Device != "0 of 8" || got[0].SMCoverage != nil ||
		*got[0].CopyNs != 0 {
		t.Errorf("%s, %v", dump(got), err)
	}
}

// The steps of a device are those of its process. Equal steps of two ranks overlap.
func TestSQLiteStepsOfProcesses(t *testing.T) {
	t.Parallel()
	got, err := Read(sqliteFile(t, exported+`DROP TABLE NVTX_EVENTS;
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES
  (100, 160, 'execute_context_0(0)_generation_1(1)', 281474976710656 + 7 * 0x1000000 + 70),
  (150, 190, 'execute_context_0(0)_generation_1(1)', 281474976710656 + 8 * 0x1000000 + 80),
  (165, 260, 'execute_context_0(0)_generation_1(1)', 281474976710656 + 7 * 0x1000000 + 70);`), Options{})
	if err != nil || got[0].Steps != 2 || got[0].PerStep[0].WallNs != 60 || got[1].Steps != 1 ||
		got[1].PerStep[0].WallNs != 40 {
		t.Errorf("%s, %v", dump(got), err)
	}
}

// Kernels have the names of PyTorch's profiler.
func TestSQLiteKernelNames(t *testing.T) {
	t.Parallel()
	got, err := Read(sqliteFile(t, exported+`ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN mangledName INTEGER;
INSERT INTO StringIds VALUES (4, 'void <unnamed>::fill<(int)4, (bool)1>(T1 *)'), (5, '_ZN12_GLOBAL__N_14fillILi4ELb1EEEvPi');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (300, 900, 0, 7, 5, 281474976710656 + 7 * 0x1000000, 4, 1, 1, 1, 5);`), Options{Top: 9})
	if err != nil || len(got[0].Top) != 3 || got[0].Top[0].Name != "void (anonymous namespace)::fill<4, true>(int*)" ||
		got[0].Top[1].Name != "ncclDevKernel_AllReduce_x" {
		t.Errorf("%s, %v", dump(got), err)
	}
}

// An export without the kernels of graphs is incomplete.
func TestSQLiteWholeGraphs(t *testing.T) {
	t.Parallel()
	got, err := Read(sqliteFile(t, exported+`CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (300, 900), (1000, 1600);`), Options{})
	const want = "left out: 2 executions of CUDA graphs, whose kernels nsys profile records with --cuda-graph-trace=node"
	if err != nil || got[0].Warning != want || !got[0].Incomplete || got[0].Truncated {
		t.Errorf("%s, %v", dump(got), err)
	}
}

// Files that are no export, or are damaged, are errors with the path.
func TestSQLiteErrors(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(sqliteFile(t, exported))
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.sqlite")
	if err := os.WriteFile(damaged, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]string{
		sqliteFile(t, "CREATE TABLE x (y INTEGER);"): "no table StringIds",
		damaged: "SQLite: ",
	} {
		if _, err := Read(path, Options{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), path) {
			t.Errorf("%v, want %s", err, want)
		}
	}

	res, err := Read(sqliteFile(t, "CREATE TABLE StringIds (id INTEGER, value TEXT);"), Options{})
	if err != nil || len(res) != 1 || res[0].Error == "" {
		t.Errorf("%s, %v", dump(res), err)
	}
}
