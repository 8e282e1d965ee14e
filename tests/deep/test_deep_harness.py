"""The harness itself: what does not end is told with the place where it stands."""


def test_a_hang_says_where(campaign):
    run = campaign.run(["serve", "--port", "0"], timeout=2)
    assert run.hung
    assert "tokenmill/cli/serve.py" in run.err
