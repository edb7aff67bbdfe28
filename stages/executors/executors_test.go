package executors

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Minute, "2:30": 150 * time.Second, "00:30:00": 30 * time.Minute, "1-00": 24 * time.Hour, "1-02:30": 26*time.Hour + 30*time.Minute,
		"2-00:00:01": 48*time.Hour + time.Second, "UNLIMITED": 0,
	} {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "0", "1:2:3:4", "-1", "1h"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// TestSplit: every case is in one shard, the same input gives the same shards,
// groups stay together as long as they are no larger than a share, and no shard is
// much larger than another.
func TestSplit(t *testing.T) {
	t.Parallel()
	groups := make([]int, 1000)
	for i := range groups {
		groups[i] = i / 10 % 37
	}
	for _, tt := range []struct {
		n, shards int
		groups    []int
	}{{0, 4, nil}, {3, 4, nil}, {1000, 7, nil}, {1000, 8, groups}, {1000, 1, groups}, {1000, 1000, groups}} {
		got := Split(tt.n, tt.groups, tt.shards)
		seen := make([]bool, tt.n)
		least, most := tt.n, 0
		in := map[int]map[int]bool{}
		for s, places := range got {
			least, most = min(least, len(places)), max(most, len(places))
			if !slices.IsSorted(places) {
				t.Errorf("%+v: shard %d is not sorted", tt, s)
			}
			for _, p := range places {
				if seen[p] {
					t.Errorf("case %d is in two shards", p)
				}
				seen[p] = true
				if tt.groups != nil {
					if in[tt.groups[p]] == nil {
						in[tt.groups[p]] = map[int]bool{}
					}
					in[tt.groups[p]][s] = true
				}
			}
		}
		if slices.Contains(seen, false) {
			t.Errorf("%d cases in %d shards: some are in none", tt.n, tt.shards)
		}
		if len(got) > tt.shards || tt.n >= tt.shards && tt.groups == nil && most-least > 1 {
			t.Errorf("%d cases in %d shards: %d to %d", tt.n, len(got), least, most)
		}
		if tt.shards == 8 {
			for g, shards := range in {
				if len(shards) > 1 {
					t.Errorf("group %d is spread over %d shards", g, len(shards))
				}
			}
			if most > 2*least {
				t.Errorf("shards of %d to %d cases", least, most)
			}
		}
		if again := Split(tt.n, tt.groups, tt.shards); !slices.EqualFunc(got, again, slices.Equal[[]int]) {
			t.Error("the same cases give other shards")
		}
	}
}

// TestSplitMixesAxes: no shard has all cases of one value of an axis that has as
// many values as there are shards.
func TestSplitMixesAxes(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{2, 4, 7, 16} {
		const rounds = 60
		for _, values := range []int{shards, 2 * shards} {
			for s, places := range Split(rounds*shards, nil, shards) {
				of := map[int]int{}
				for _, p := range places {
					of[p%values]++
				}
				for v, n := range of {
					if n > rounds*3/4 || n > rounds/2 && shards > 2 {
						t.Errorf("%d shards: %d of the %d cases of shard %d have value %d of %d", shards, n, len(places), s, v, values)
					}
				}
			}
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n    []int
		want string
	}{{[]int{0}, "0"}, {[]int{0, 1, 2, 3}, "0-3"}, {[]int{0, 2, 3, 9}, "0,2-3,9"}} {
		if got := ranges(tt.n); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.n, got, tt.want)
		}
	}
}

// TestIndicesOf reads what scontrol says of tasks that are one record.
func TestIndicesOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"3": {3}, "2-5%2": {2, 3, 4, 5}, "0,2-3,9": {0, 2, 3, 9}, "0-6:2%8": {0, 2, 4, 6}, "": nil, "N/A": nil, "1-2,...": {1, 2}, "0-99999999999": nil, "5-1": nil, "0-3:0": nil,
	} {
		if got := indicesOf(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestOrderKeepsItsShards reads back what was written, one shard and all.
func TestOrderKeepsItsShards(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	shards := [][]int{{0, 5, 6, 1000}, {1}, {2, 3, 4}}
	var write []Shard
	for _, s := range shards {
		write = append(write, Shard{Places: s, GPUs: len(s)})
	}
	if err := Create(home, &Order{ID: NewID(home, time.Now()), Stage: "collect.s", Key: "k"}, write); err != nil {
		t.Fatal(err)
	}
	o, err := Latest(home, "collect.s")
	if err != nil || o == nil {
		t.Fatalf("%v, %v", o, err)
	}
	all, err := o.AllPlaces()
	if err != nil || !slices.EqualFunc(all, shards, slices.Equal[[]int]) {
		t.Errorf("%v, %v", all, err)
	}
	for s, want := range shards {
		if got := o.Shards[s].GPUs; got != len(want) {
			t.Errorf("the cases of shard %d need %d GPUs, want %d", s, got, len(want))
		}
		if got, err := o.Places(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("shard %d: %v, %v; want %v", s, got, err, want)
		}
	}
	if _, err := o.Places(3); err == nil {
		t.Error("there is no shard 3")
	}
	// A later try speaks for its shard.
	for _, s := range []Status{{Shard: 1, Attempt: 1}, {Shard: 1, Attempt: 1000}} {
		if err := o.Report(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Report(Status{Shard: 1, Attempt: 1}); err == nil {
		t.Error("an earlier try speaks after a later one")
	}
}

// TestIdsSortBehindThoseThatAreThere: the clock of one login node may be behind
// that of another, and two orders may be made within a second.
func TestIdsSortBehindThoseThatAreThere(t *testing.T) {
	t.Parallel()
	home, now := t.TempDir(), time.Now()
	for i, at := range []time.Time{now, now, now.Add(-time.Hour), now.Add(-2 * time.Hour), now.Add(time.Minute), now} {
		o := &Order{ID: NewID(home, at), Stage: "collect.s", Key: "k"}
		if err := Create(home, o, []Shard{{Places: []int{0}}}); err != nil {
			t.Fatal(err)
		}
		if last, err := Latest(home, "collect.s"); err != nil || last == nil || last.ID != o.ID {
			t.Errorf("order %d, made at %s, is not the last one: %+v, %v", i, at, last, err)
		}
	}
}

// TestStagesWithOneHome: names that differ only in what no name of a file has are
// in one folder, and have orders of their own.
func TestStagesWithOneHome(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	ids := map[string]string{}
	stages := []string{`collect.s["a b"]`, `collect.s["a_b"]`, `collect.s["a/b"]`}
	for _, stage := range stages {
		home := Home(state, stage)
		if home != Home(state, stages[0]) {
			t.Fatalf("%s has a home of its own", stage)
		}
		ids[stage] = NewID(home, time.Now())
		if err := Create(home, &Order{ID: ids[stage], Stage: stage, Key: stage}, []Shard{{Places: []int{0}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, stage := range stages {
		if o, err := Latest(Home(state, stage), stage); err != nil || o == nil || o.ID != ids[stage] || o.Key != stage {
			t.Errorf("%s: %+v, %v", stage, o, err)
		}
	}
}

// TestScriptWritesPercentSignsOfFolders: Slurm takes one in the name of a file for
// the beginning of a pattern, and jobs die without a word where the folder that
// comes of it is not there.
func TestScriptWritesPercentSignsOfFolders(t *testing.T) {
	t.Parallel()
	c := &Config{Nodes: 1, TasksPerNode: 1, Drain: time.Minute}
	text := c.Text(Script{Stage: "collect.s", Order: "o", OrderDir: "/w/100%A d/o", StateDir: "/w/100%A d", LogDir: "/w/100%A d/logs", Program: "/bin/aicplan"})
	for _, want := range []string{`#SBATCH -o "/w/100%%A d/logs/aic_collect.s_%A_%a.out"`, `task '/w/100%A d/o'`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
