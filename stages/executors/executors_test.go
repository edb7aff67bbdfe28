package executors

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Minute, "2:30": 150 * time.Second, "00:30:00": 30 * time.Minute, "1-00": 24 * time.Hour,
		"1-02:30":    26*time.Hour + 30*time.Minute,
		"2-00:00:01": 48*time.Hour + time.Second, "UNLIMITED": 0,
	} {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "0", "1:2:3:4", "-1", "1h", "200000-00", "9999999999"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// TestSplit checks that every case is in one shard, that the result is deterministic, that groups no
// larger than a share stay together, and that shards have similar sizes.
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

// TestSplitMixesAxes checks that no shard gets all cases of one value of an axis with as many values as
// there are shards.
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

// TestOrderKeepsShards reads an order that Create wrote.
func TestOrderKeepsShards(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	shards := []Shard{{Places: []int{0, 5, 6, 1000}, GPUs: 4}, {Places: []int{1}}, {Places: []int{2, 3, 4}}}
	if err := Create(home, &Order{Stage: "collect.s", Key: "k", Shards: shards}); err != nil {
		t.Fatal(err)
	}
	o, err := Latest(home, "collect.s")
	if err != nil || o == nil || !reflect.DeepEqual(o.Shards, shards) {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestReportRejectsEarlierTry(t *testing.T) {
	t.Parallel()
	o := &Order{Stage: "collect.s", Shards: make([]Shard, 2)}
	if err := Create(t.TempDir(), o); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Status{{Shard: 1, Attempt: 1}, {Shard: 1, Attempt: 1000}} {
		if err := o.Report(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Report(Status{Shard: 1, Attempt: 1}); !errors.Is(err, ErrFenced) {
		t.Errorf("an earlier try reports after a later one: %v", err)
	}
}

// TestStagesSharingHome checks that stages whose names map to the same folder have separate orders.
func TestStagesSharingHome(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	ids := map[string]string{}
	stages := []string{`collect.s["a b"]`, `collect.s["a_b"]`, `collect.s["a/b"]`}
	for _, stage := range stages {
		o := &Order{Stage: stage, Key: stage}
		if err := Create(Home(state, stage), o); err != nil {
			t.Fatal(err)
		}
		ids[stage] = o.ID
	}
	for _, stage := range stages {
		if o, err := Latest(Home(state, stage), stage); err != nil || o == nil || o.ID != ids[stage] || o.Key != stage {
			t.Errorf("%s: %+v, %v", stage, o, err)
		}
	}
}

// TestScriptWritesPercentSignsOfFolders checks that percent signs are escaped. Slurm interprets them as
// patterns, and jobs fail without a message if the resulting folder does not exist.
func TestScriptWritesPercentSignsOfFolders(t *testing.T) {
	t.Parallel()
	c := &Config{Nodes: 1, TasksPerNode: 1, Drain: time.Minute}
	text := c.Text(Script{Stage: "collect.s", OrderDir: "/w/100%A d/o", StateDir: "/w/100%A d", LogDir: "/w/100%A d/logs",
		Program: "/bin/aicplan"})
	for _, want := range []string{`#SBATCH -o "/w/100%%A d/logs/aic_collect.s_%A_%a.out"`, `task '/w/100%A d/o'`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
