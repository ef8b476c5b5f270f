import pytest
import torch

from spacy_bilstm_crf import crf


def make_potentials(scale, n_tags=4):
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
    lengths = torch.tensor([4, 0, 2, 3])
    return crf.Potentials(scale * draw(4, 4, n_tags), lengths, draw(n_tags, n_tags), draw(n_tags), draw(n_tags))


# Scores that spread far leave probability space for log space.
@pytest.mark.parametrize("scale", [1.0, 400.0])
@pytest.mark.parametrize("masked", [True, False])
def test_log_partition_and_gradient_equal_differences(scale, masked):
    potentials = make_potentials(scale)
    possible = None
    if masked:
        possible = torch.rand(4, 4, 4, generator=torch.Generator().manual_seed(1)) < 0.7
        possible[:, :, 0] = True
    weights = torch.tensor([0.5, 3.0, -2.0, 1e3], dtype=torch.float64)
    log_z, gradient = crf.log_partition_and_gradient(potentials, possible, weights)
    assert torch.equal(log_z, crf.log_partition(potentials, possible))
    step = 1e-5
    for name, expected in gradient._asdict().items():
        scores = getattr(potentials, name)
        for i in range(scores.numel()):
            moved = []
            for sign in (1, -1):
                changed = scores.clone().contiguous()
                changed.view(-1)[i] += sign * step
                moved.append(crf.log_partition(potentials._replace(**{name: changed}), possible))
            difference = float((weights * (moved[0] - moved[1])).sum()) / (2 * step)
            assert float(expected.reshape(-1)[i]) == pytest.approx(difference, abs=1e-3)


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_without_weights_every_document_counts_once(scale):
    potentials = make_potentials(scale)
    _, once = crf.log_partition_and_gradient(potentials)
    _, weighted = crf.log_partition_and_gradient(potentials, None, torch.ones(4, dtype=torch.float64))
    for left, right in zip(once, weighted, strict=True):
        torch.testing.assert_close(left, right)
