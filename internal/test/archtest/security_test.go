package archtest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// A promise of SECURITY.md, by its first sentence, and the tests that hold it, which may be members of the
// suites in runtime/runtimetest and internal/test/shimtest.
type promise struct{ title, tests string }

var promises = []promise{
	{"Deny by default", "OwnNamespaces NoCapabilities NoNewPrivileges NoNewUserNamespaces KernelCallsRefused " +
		"SocketFamiliesRefused TerminalInjectionRefused OnlyDescriptors012 ExecCleanEnvironment Umask " +
		"TestVerdicts"},
	{"Root inside is asked for, and has less than it seems", "TestAttackMatrixWithRoot TestAttackMatrixOverHost TestInner TestHelper TestOwnedLayer TestMakeSystem"},
	{"Only what the sandbox needs of the host, or you named", "TestNotByDefault TestSearch HostFilesInvisible HostProcessesInvisible EtcIsMinimal RootReadOnly " +
		"NoKernelSettingWritable HostDetailsMasked"},
	{"Toolchains without what lies beside", "TestFind TestNever TestLinkedHome TestReadable TestToolchainSockets"},
	{"No way out by a socket of the host", "TestDaemonsOfTheHost SocketsInMounts"},
	{"A network of names has no other way out", "TestAttacks TestDNS TestRefusedFlood TestFlood TestHeaderAllowsNothingElse TestHeaderIsNotEchoed " +
		"TestUpgradeRefused TestLookupOncePerConnection TestBindings"},
	{"The console obeys its own page only", "TestOwnersAreApart TestOtherPagesAreRefused TestNamesAreText TestOwnConnections TestVerify TestKilledWriters"},
	{"What you name is not followed where sandboxes write", "TestResolve TestLook TestScripts"},
	{"Single ports, in the direction that you asked for", "ExposedPort HostSocket TestResolve TestClientsCannotListen TestLiesAboutSockets " +
		"TestUnendedConnectionsAreBounded TestConnectionsOfSingleBytes TestBindings"},
	{"A crash runs nothing outside", "CrashRunsNoHandler CoreDumpLimitStays"},
	{"No mount point is made through a link", "TestNestHostile TestNestForEngineHostile TestNestRace TestNest TestJudge TestLinkInCodebase " +
		"TestLinkInImage TestUseOtherCodebase TestRepository TestKeyed TestRights TestRemoveHostile"},
	{"The codebase only through the filter", "FilterLevels FilterAllProcesses FilterHardLink FilesReadOnly TestSwapsNeverEscape TestNoOtherWayIn " +
		"TestSetIDIsStripped TestLinksThatLeadOut"},
	{"Nothing less without being asked", "TestWithoutFuse TestStatic TestPlan TestGrantsAll"},
	{"No byte that a sandbox writes reaches a git directory of the host", "TestPrivateGit TestPrivateGitWays TestSequences TestBoth TestAttacks TestScripts"},
	{"Your programs execute nothing because of a file's name", "TestExecutedRows TestExecutedNamesCannotBeMade TestNewNamesInCodebase TestHomeLinks TestConditions " +
		"TestExecutedLinks TestOwnPolicyFile TestEarlierPolicyFile"},
	{"A project's configuration counts after you read it, and no further than yours", "TestBindings TestAssembleProject TestConfigKeys TestTrust TestRead TestScripts"},
	{"A CI job's commands get what the job names", "TestAction TestActionHostile TestExecutor TestExecutorRefuses TestGitLabRunner"},
	{"An installation is what the key has signed", "TestInstaller TestActionInstall"},
	{"Images are hostile", "TestUnpackHostile TestUnpackLimits TestPullWrong TestPullBomb TestPrivate LinksNotFollowed " +
		"UnpackedAmongLinks TestImageReadOnly"},
	{"Root drops", "TestRootDropsToOwner IdentityOnHost TestRootsTreeTakesRecordedRulesOnly"},
	{"PID 1 is out of reach", "PID1OutOfReach PID1NotSignalled TestGuard TestGuestDefendsItself"},
	{"No process that reads from a sandbox can talk to an engine", "TestOnDocker TestHungKeeper TestLostAsksNobody"},
	{"The host trusts nothing from inside", "TestRelayEndsALyingGuest TestClientThatBreaksTheProtocol TestHostileNames TestUnpackHostile"},
	{"Owners are apart", "TestTwoOwners TestStrangers TestFiftyCreateForOneOwner"},
	{"No owner and no key has more than its quota", "TestQuotas TestRates TestExceeded"},
	{"A token opens one sandbox for one purpose", "TestTokens TestEndpointToken TestTrafficRate TestSignatures"},
	{"A pod gets what is shown, and no right", "TestPod TestOpenNetwork TestCodebase TestHostilePod TestPodGetsWhatIsShown"},
	{"Docker's socket has its user's rights, and no more", "TestDecode TestParameters TestBuildRequest TestBuildFrom TestIgnoreIsBounded"},
	{"The service's socket is its user's", "TestListen TestPeers TestStrangers TestDecode TestTwoOwners TestScripts"},
	{"An MCP client's tools work inside", "TestMCP TestMCPEnds TestHostileAnswers"},
	{"On TCP the service knows its clients", "TestClientUID TestOwnConnections TestHostAndOrigin TestReadKeys TestKeys TestOwners TestForeignPages " +
		"TestUploadRefuses TestDirectories TestSwapsOverHTTP TestSwaps TestCreateRefuses TestPorts " +
		"TestRefused TestMetadata TestDiagnostics TestEgress TestPublic TestPublicHidesTheBody TestScripts " +
		"TestImageScripts"},
	{"A copied codebase changes when its user says so", "TestClaim TestApplyWaitsForNoClaim TestPutBackMakesNoRepository TestApplyBesideTheHost " +
		"TestHiddenIsNotShown TestNothingIsFollowed TestWhiteoutsOfStrangers TestReviewRace " +
		"TestModeOfALinkedFile TestReplacedDirectories TestGitInOneBatch TestNestedRepositories " +
		"TestDiffHidesByBothPaths TestHostileCommits TestCopiedModel TestScripts"},
	{"wolffia executes its own programs only", "TestCarried TestChangedIsReplaced TestMemory TestDamaged TestAtOnce"},
	{"Limits bind all of a sandbox", "LimitMemory LimitMemoryFiles LimitCPUs LimitPIDs LimitPIDsWhileFull LimitsBeforeTrace TestFillServer " +
		"TestQuotaOfTwoNames"},
	{"A PID 1 that does not answer delays no caller", "TestStoppedInit TestPulse TestOverdue TestSecondSignal TestLogIsBounded"},
	{"No silent weakening", "LimitsBestEffort RulesRefused TestLaunchSaysWhatIsMissing TestFoldingIsRefused"},
}

var (
	promiseTitles = regexp.MustCompile(`(?ms)^\*\*(.*?)\.\*\*`)
	testNames     = regexp.MustCompile(`func (Test\w+)\(|\{"([A-Z]\w+)", `)
)

// TestSecurityNamesTests: each promise of SECURITY.md has tests, which exist, and is in its table of them.
func TestSecurityNamesTests(t *testing.T) {
	exist := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, m := range testNames.FindAllStringSubmatch(read(t, rel), -1) {
			exist[m[1]+m[2]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	table := "| promise | tests |\n| --- | --- |\n"
	for _, p := range promises {
		titles = append(titles, p.title)
		for name := range strings.FieldsSeq(p.tests) {
			if !exist[name] {
				t.Errorf("%q names the test %q, which does not exist", p.title, name)
			}
		}
		table += "| " + p.title + " | " + strings.Join(strings.Fields(p.tests), ", ") + " |\n"
	}
	holds, _, _ := strings.Cut(read(t, "SECURITY.md"), "## What does not hold")
	var written []string
	for _, m := range promiseTitles.FindAllStringSubmatch(holds, -1) {
		written = append(written, strings.Join(strings.Fields(m[1]), " "))
	}
	if !slices.Equal(written, titles) {
		t.Errorf("SECURITY.md has the promises %q, promises has %q", written, titles)
	}
	doctable.Check(t, filepath.Join(root, "SECURITY.md"), "tests", table)
}
