package comm

import (
	"fmt"
	"reflect"
	"testing"
	"testing/fstest"
)

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string][]int{"0-3,8,10-11\n": {0, 1, 2, 3, 8, 10, 11}, "": nil, "5": {5}, "x,2": {2},
		"9-4": nil} {
		if got := parseCPUs(text); !reflect.DeepEqual(got, want) {
			t.Errorf("parseCPUs(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestCoresNearTheDeviceComeFirst(t *testing.T) {
	sys := fstest.MapFS{"bus/pci/devices/0000:c1:00.0/local_cpulist": {Data: []byte("2-3,6-7\n")}}
	for c := range 8 {
		sys[fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", c)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "%d,%d\n", c%4, c%4+4),
		}
	}
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	got, want := coresOf(sys, all, "0000:c1:00.0"), [][]int{{2, 6}, {3, 7}, {0, 4}, {1, 5}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("cores %v, want %v", got, want)
	}
	if got, want := coresOf(sys, []int{1, 2, 6}, "0000:00:00.0"), [][]int{{1}, {2, 6}}; !reflect.DeepEqual(got, want) {
		t.Errorf("cores %v, want %v: only allowed processors count", got, want)
	}
	if got := coresOf(fstest.MapFS{}, all, "x"); got != nil {
		t.Errorf("cores %v on a machine without topology", got)
	}
}

func TestPickSpreadsRanks(t *testing.T) {
	cores := func(n int) (out [][]int) {
		for i := range n {
			out = append(out, []int{i})
		}
		return out
	}
	for _, c := range []struct{ cores, rank, want int }{{64, 0, 7}, {64, 7, 56}, {9, 0, 1}, {9, 7, 8}, {4, 0, 1},
		{4, 1, 2}} {
		if got := pick(cores(c.cores), c.rank); len(got) != 1 || got[0] != c.want {
			t.Errorf("rank %d of %d cores: %v, want %d", c.rank, c.cores, got, c.want)
		}
	}
	for _, c := range []struct{ cores, rank int }{{2, 0}, {4, 2}, {0, 0}, {64, 9}} {
		if got := pick(cores(c.cores), c.rank); got != nil {
			t.Errorf("rank %d of %d cores: %v, want none", c.rank, c.cores, got)
		}
	}
}
