"""Tests that share what takes long run in one process."""

from tests.support.scheduling import Groups, group_of


def test_a_group_is_a_file_torch_or_the_sources():
    file = "tests/docs/test_pages.py"
    assert group_of(f"{file}::test_a[x@y]") == group_of(f"{file}::TestB::test_c") == file
    with_torch = {
        f"{file}::test_torch",
        f"{file}::test_d[torch]",
        "tests/e/test_torch_f.py::test_g",
    }
    assert {group_of(nodeid) for nodeid in with_torch} == {"torch"}
    sources = {f"tests/architecture/test_{name}.py::test_{name}" for name in "hi"}
    assert len({group_of(nodeid) for nodeid in sources}) == 1


def test_processes_are_given_groups(request):
    hook = request.config.pluginmanager.hook.pytest_xdist_make_scheduler
    (found,) = hook.get_hookimpls()
    assert Groups.__name__ in found.function.__code__.co_names
