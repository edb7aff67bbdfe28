package pyhost_test

import (
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
)

// versionCases are PEP 440's own examples and the versions that frameworks
// have: what meets which condition.
const versionCases = `
1.3.0rc20        >=1.3.0rc20          yes
1.3.0rc20        >=1.3.0rc21          no
1.3.0rc20        >=1.3.0              no
1.3.0rc20        <1.3.0               no
1.3.0rc20        <=1.3.0              yes
1.3.0rc9         <1.3.0rc20           yes
1.3.0rc5.post1   >1.3.0rc5            no
1.3.0rc5.post1   >=1.3.0rc5           yes
0.5.6.post2      >0.5.6               no
0.5.6.post2      >=0.5.6.post1        yes
0.5.14           ==0.5.14             yes
0.5.14           ==0.5.*              yes
0.5.14           !=0.5.*              no
0.6              ==0.5.*              no
0.24.0+cu130     ==0.24.0             yes
0.24             ==0.24.0             yes
0.1.dev19262     ==0.1.dev19262       yes
0.1.dev19262     <0.1                 no
0.1.dev19262     >=0.1.dev1           yes
1.0.0            >=0.9,<1.1,!=1.0.1   yes
1.0.1            >=0.9,<1.1,!=1.0.1   no
2.0              ~=1.4                no
1.9.3            ~=1.4                yes
1.4.9            ~=1.4.2              yes
1.5.0            ~=1.4.2              no
1!0.1            >2.0                 yes
1.0a1            <1.0b1               yes
1.0.dev3         <1.0a1               yes
1.0c1            ==1.0rc1             yes
v1.0             ==1.0                yes
1.10             >1.9                 yes
`

func TestVersionsAreOrderedAsPEP440Says(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(versionCases), "\n") {
		f := strings.Fields(line)
		met, err := pyhost.Satisfies(f[0], f[1])
		if err != nil || met != (f[2] == "yes") {
			t.Errorf("%s meets %s: %v (%v), want %s", f[0], f[1], met, err, f[2])
		}
	}
	for _, bad := range []string{"", "x", "1..2", "1.0-"} {
		if _, err := pyhost.Satisfies(bad, ">=1"); err == nil {
			t.Errorf("version %q is no error", bad)
		}
	}
	for _, bad := range []string{">>1", "=>1.0", "~=1"} {
		if _, err := pyhost.Satisfies("1.0", bad); err == nil {
			t.Errorf("condition %q is no error", bad)
		}
	}
}

func TestAnswersOfTheEngine(t *testing.T) {
	minima := []string{"1.3.0rc5", "1.3.0rc20", "0.20"}
	for _, c := range []struct {
		q    worker.Question
		want worker.Answer
		fail string
	}{
		{worker.Question{What: "requires", Version: "0.0.0.dev1+g1234", Specifier: ">=1"}, worker.Answer{}, ""},
		{worker.Question{What: "compat", Version: "0.0.0.dev1+g1234", Specifier: ">=1"}, worker.Answer{Met: true}, ""},
		{worker.Question{What: "compat", Version: "0.24.0+cu130", Specifier: "<0.24"}, worker.Answer{}, ""},
		{worker.Question{What: "route", Version: "1.3.0rc9", Minima: minima}, worker.Answer{Index: 0, Oldest: 2}, ""},
		{worker.Question{What: "route", Version: "1.3.0", Minima: minima}, worker.Answer{Index: 1, Oldest: 2}, ""},
		{worker.Question{What: "route", Version: "0.0.0.dev1", Minima: minima}, worker.Answer{Index: 1, Oldest: 2}, ""},
		{worker.Question{What: "route", Version: "0.1", Minima: minima}, worker.Answer{Index: -1, Oldest: 2}, ""},
		{worker.Question{What: "route", Version: "nightly", Minima: minima}, worker.Answer{Index: -1},
			`"nightly" is not a version`},
		{worker.Question{What: "requires", Version: "1", Specifier: ">>1"}, worker.Answer{},
			`">>1" is not a version condition`},
		{worker.Question{What: "weather"}, worker.Answer{}, "weather"},
	} {
		got, err := pyhost.Answer(c.q)
		if c.fail == "" && (err != nil || got != c.want) || c.fail != "" &&
			(err == nil || !strings.Contains(err.Error(), c.fail)) {
			t.Errorf("%+v: %+v, %v; want %+v, %q", c.q, got, err, c.want, c.fail)
		}
	}
}
