package pyhost_test

import (
	"os/exec"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
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
	host, err := pyhost.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const script = `
import importlib.util, sys
spec = importlib.util.spec_from_file_location("host", sys.argv[1])
host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(host)
for line in sys.stdin:
    if line.strip():
        version, condition, want = line.split()
        own = host._satisfies(version.partition("+")[0], condition)
        print(version, condition, "yes" if own else "no", "yes" if host.satisfies(version, condition) else "no", want)
for bad in ("", "x", "1..2", "1.0-"):
    try:
        host.Version(bad)
        print("Version(%r) is no error" % bad)
    except host.HostError:
        pass
for bad in ("1.0", ">>1", "=>1.0", "~=1"):
    try:
        host._satisfies("1.0", bad)
        print("condition %r is no error" % bad)
    except host.HostError:
        pass
assert host.route_version("0.0.0.dev1+g1234") == "9999.0.0" and host.route_version("0.5.14+x") == "0.5.14"
`
	cmd := exec.Command(python(t), "-B", "-c", script, host)
	cmd.Stdin = strings.NewReader(versionCases)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Error(line)
		} else if f[2] != f[4] || f[3] != f[4] {
			t.Errorf("%s meets %s: ours says %s, the installed packaging (or ours) %s, want %s", f[0], f[1], f[2], f[3], f[4])
		}
	}
}
